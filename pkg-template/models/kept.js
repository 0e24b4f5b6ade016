// The models that the site keeps. No engine is needed to list or delete them.

/** @import { StoreSize, StoredModel } from "../types.js" */

const inventory = () => import("./inventory.js");

/** The models that are kept between visits. */
export class Models {
  /**
   * Lists the models that are kept, whole or in part, the one used last first.
   *
   * @returns {Promise<StoredModel[]>}
   */
  async list() {
    return (await inventory()).list();
  }

  /**
   * Bytes of the models, and those that the site uses of the browser's storage and may use at most, where
   * the browser reports them.
   *
   * @returns {Promise<StoreSize>}
   */
  async size() {
    return (await inventory()).size();
  }

  /**
   * Deletes a model from the store; true if there was anything of it. Engines that have it loaded keep it,
   * but would have to download it again. Rejects with code `model_busy` while the model is being loaded.
   *
   * @param {string | URL} model address or name, as it was loaded
   * @param {import("../types.js").NameOptions | null} [options] those of a name with which it was loaded
   * @returns {Promise<boolean>}
   */
  async delete(model, options) {
    return (await inventory()).remove(model, options);
  }

  /**
   * Deletes what is stored of conversations (`prefixCache.storedBytes`), of all models. Engines go on, and
   * store what comes later.
   *
   * @returns {Promise<void>}
   */
  async deletePrefixes() {
    return (await inventory()).removePrefixes();
  }
}
